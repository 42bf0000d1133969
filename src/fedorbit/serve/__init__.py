"""`fedorbit serve`: runs on a page that is live, read from their folders and never written to."""
