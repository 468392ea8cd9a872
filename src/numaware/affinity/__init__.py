"""Who sits with whom at run time: from what pods say to each other to the NUMA nodes they should share."""
