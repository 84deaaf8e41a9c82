"""RLX operations, one module a family; an operation is whole in its class."""
