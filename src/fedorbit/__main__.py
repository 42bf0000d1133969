"""`python -m fedorbit` is `fedorbit`."""

from fedorbit.cli import main

main()
