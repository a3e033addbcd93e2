"""`kind: gcs`: objects in Google Cloud Storage."""
