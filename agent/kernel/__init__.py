"""Operating-system mechanisms that more than one zone needs: framed channels, confinement, safe opening.

Knows nothing of runs, modes or GitHub. Below the zones and above `contract` in the import order.
"""
