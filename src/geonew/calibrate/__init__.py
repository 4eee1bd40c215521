"""What a model's errors are likely to be where the truth is not known, and how far it reaches."""
