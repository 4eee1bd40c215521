"""The page: a person changes a shape in the browser and sees the field follow."""
