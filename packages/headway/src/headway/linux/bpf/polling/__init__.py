"""System calls by which a thread asks again and again for something that is not there."""
