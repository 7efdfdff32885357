"""The parts of ``benchmarks.trust``: problems, one case, and what others say."""
