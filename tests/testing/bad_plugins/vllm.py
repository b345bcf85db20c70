"""Stands for a package that no host should import; its like touch much while they load."""
