"""Results in an S3-compatible bucket."""
