"""schedule: delivers delayed messages when they are due."""
