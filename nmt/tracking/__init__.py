"""MLflow. Only this package imports it, apart from the pyfunc export."""
