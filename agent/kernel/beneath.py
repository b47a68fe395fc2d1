"""Opening files beneath a root."""


class Beneath:
    """Opens paths under one root and never outside."""
