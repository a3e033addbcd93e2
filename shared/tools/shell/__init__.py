"""`kind: shell`: scripts under wardens of their own."""
