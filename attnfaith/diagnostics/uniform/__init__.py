"""Uniform attention: whether learning attention helps at all."""
