"""Importers: graphs of other frameworks as RLX graphs."""
