"""Images on disk, as arrays, and dealt to satellites."""
