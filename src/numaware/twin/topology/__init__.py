"""The Topology Manager: hints, their merge, and the policy that judges the merged hint."""
