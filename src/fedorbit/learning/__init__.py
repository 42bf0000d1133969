"""One satellite learns: the model, its flat parameter vector, local SGD, and engines."""
