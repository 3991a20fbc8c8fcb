"""The page in Airflow: what every pipeline does, read from Airflow's database and the checkpoints."""
