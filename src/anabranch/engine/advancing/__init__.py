"""What a job does next: facts and an event in, transitions out, applied in one transaction."""
