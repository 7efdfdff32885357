"""Would the tests notice? Small faults are put into a copy of the code, one at a time; see docs/mutants.md."""
