"""What tests of several stores share."""
