"""What the Makefile runs: Java, locks, secrets, the workers' environment. Each module is a script of its own."""
