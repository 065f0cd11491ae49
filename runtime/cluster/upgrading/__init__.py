"""What an upgrade asks Ray, and tells through it: see runtime/driver/upgrades."""
