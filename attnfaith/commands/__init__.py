"""The commands of the command line, a module each: arguments to calls, no logic."""
