"""From a mesh file and a few words to a prediction that says how far it can be trusted."""
