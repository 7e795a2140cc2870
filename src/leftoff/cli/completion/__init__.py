"""Completion for bash, zsh and fish."""
