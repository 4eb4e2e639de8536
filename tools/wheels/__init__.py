"""Build the wheels: headway for x86-64 and arm64 with everything inside, cross-built. See packages/headway/docs."""
