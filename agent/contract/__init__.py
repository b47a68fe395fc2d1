"""Words shared by all zones: enums, frozen dataclasses, pure functions. Standard library only, no I/O."""
