"""The round loop, evaluation, records and checkpoints."""
