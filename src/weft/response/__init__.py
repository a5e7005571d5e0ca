"""What is done about a contact: each response is written once, over stencils."""
