"""Devices that come by Dynamic Resource Allocation (DRA): what drivers offer, who claims it, what was allocated."""
