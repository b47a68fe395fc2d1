"""The egress policy: what may leave, decided without I/O and before any secret is read (DESIGN section 6)."""
