"""The DynamoDB arbiter: against a real DynamoDB Local, beside a re-enactment of Delta's side."""
