"""What is wrong with settings: each problem that pydantic found becomes one line for the user."""
