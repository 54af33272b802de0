"""What requests say: bodies, parameters and headers, checked."""
