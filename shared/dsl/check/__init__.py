"""What is wrong with a plan that reads well: names, data, pools, and the net of its tokens."""
