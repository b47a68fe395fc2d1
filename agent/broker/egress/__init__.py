"""Sending what the policy allows. The only package that speaks HTTP (DESIGN section 2)."""

from agent.broker.egress.send import Egress, EgressResponse, EgressStream

__all__ = ["Egress", "EgressResponse", "EgressStream"]
