"""The Geo-NeW model: reduced Whitney spaces, a certified balance law, a fast exact solve."""
