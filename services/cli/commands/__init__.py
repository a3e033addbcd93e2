"""The command words, one module each, named after the word. What two commands share lives in a room beside this one."""
