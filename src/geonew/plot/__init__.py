"""Pictures: meshes with their groups, fields, errors."""
