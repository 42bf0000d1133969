"""Results: what methods have left, means over seeds, what is best, and how numbers are printed.

The table of a run, of a report and of a study all stand on this, so that the same runs give the
same numbers everywhere.
"""
