"""Many random networks -> estimates with errors: the questions and the one runner of them."""
