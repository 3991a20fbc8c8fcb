"""Scripts of the Makefile: Java, locks, secrets, English, the environment of the workers. Each is a module."""
