"""`view`: a transcript as one self-contained page that loads nothing and runs nothing of what it shows."""
