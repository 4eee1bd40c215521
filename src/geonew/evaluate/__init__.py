"""How good a trained model is: errors, boundary, balances, certificates, cost, on any data file."""
