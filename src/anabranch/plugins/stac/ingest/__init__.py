"""STAC from elsewhere: documents are read, checked one by one, and published in bulk (decision 027)."""
