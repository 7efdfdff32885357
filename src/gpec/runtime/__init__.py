"""Execution of blocks of rows on threads or a cluster, checkpoints, files, seeds."""
