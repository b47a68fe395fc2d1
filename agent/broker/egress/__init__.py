"""Sending what the policy allows. The only package that speaks HTTP (DESIGN section 2)."""

from agent.broker.egress.answers import EgressResponse, EgressStream
from agent.broker.egress.send import Egress
from agent.broker.egress.transport import Reach, make_transport, reach_of

__all__ = ["Egress", "EgressResponse", "EgressStream", "Reach", "make_transport", "reach_of"]
