"""What fit, explain, calibrate and refine do, step by step."""
