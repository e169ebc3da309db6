"""The only code that lives inside the user's program: standard library only, and silent when it fails."""
